"""The thesis's XML: its schema documents, requests and DTDs, over HTTP and over the plain port of its daemon.

    safe_xml.py      reading what strangers send
    schema_form.py   the schema as <IESCHEMA>, one domain as <DOMAIN>
    requests.py           the DTDs of the requests, from the live schema
    requests.py      the requests, and what they mean
    handle.py       bytes to a request, or everything that is wrong with them, by line
    handle.py        one request, from its bytes to the reply: what HTTP mounts, and what the daemon calls
    replies.py       reply documents and their DTD; who asks, and what they may do
    daemon.py        the port, and where one document ends and the next begins on a connection

An extra: it needs lxml, which `pip install 'tocsin[xml]'` brings. Whoever uses it imports it when it is asked for, and
imports the module that is needed. How the requests are used is in docs/xml.md.
"""

from tocsin import plugins

plugins.require("xml")
