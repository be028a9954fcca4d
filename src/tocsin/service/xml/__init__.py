"""The thesis's XML requests, over HTTP and over the plain port of its daemon.

    handle.py      one request, from its bytes to the reply: what HTTP mounts, and what the daemon calls
    principal.py   who asks, and what they may do
    reading.py     bytes to a request, or everything that is wrong with them, by line
    replies.py     reply documents and their DTD
    framing.py     where one document ends and the next begins, on a connection
    daemon.py      the port

What the requests mean is in schema/requests.py, their DTDs in schema/dtd.py, how they are used in docs/xml.md.
"""

from tocsin.service.xml.daemon import DaemonLimits, XmlDaemon, serve_xml
from tocsin.service.xml.handle import handle
from tocsin.service.xml.principal import GUEST, Principal
from tocsin.service.xml.replies import CONTENT_TYPE, XmlReply, dtd_file

__all__ = [
    "CONTENT_TYPE",
    "GUEST",
    "DaemonLimits",
    "Principal",
    "XmlDaemon",
    "XmlReply",
    "dtd_file",
    "handle",
    "serve_xml",
]
