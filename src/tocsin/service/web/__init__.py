"""The web application: everything that the service does, for people who would rather look than read.

Pages are rendered here and work without JavaScript; htmx keeps drafts up to date while somebody types, and a little
code of ours (static/app.js) shows what arrives. Handlers call the same functions as the routes of the API.
"""
