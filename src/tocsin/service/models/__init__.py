"""The documents of requests and answers, for the framework's checks and for OpenAPI.

Requests forbid what they do not know, so that `owner` or `is_admin` in a body is refused rather than ignored. Answers
are encoded by msgspec from documents.py; these models describe them.
"""
