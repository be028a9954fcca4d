"""What pages say in words, by key, so that another language is another catalogue.

DONE      what was done, said once on the page that follows
CONFIRM   what is asked before something is destroyed: the question, what it means, and the button
LEASES    how long a subscription lasts
"""

from __future__ import annotations

DONE = {
    "registered": "Welcome. You are registered and logged in.",
    "subscribed": "The subscription is in force: every event published from now on is matched against it.",
    "replaced": "The subscription asks for the new thing, from now on.",
    "paused": "The subscription is paused: it matches nothing until it is resumed. Its lease runs on.",
    "resumed": "The subscription matches again what is published from now on.",
    "renewed": "The lease was renewed.",
    "noted": "Name, tags and note were saved.",
    "ended": "The subscription has ended. Nothing more will be sent for it.",
    "published": "The event was published.",
    "extended": "The schema was extended.",
    "proposed": "It waits for an admin's yes.",
    "answered": "The proposal has its answer.",
    "password": "The password was changed, and all sessions ended. Log in again.",
    "revoked": "The token was revoked, and with it what was got by it.",
    "session-ended": "The session has ended.",
    "removed": "The webhook was removed.",
    "enabled": "The webhook is enabled.",
    "changed": "The account was changed.",
    "read": "Everything in the inbox is marked as read.",
    "logged-out": "You are logged out.",
}
CONFIRM = {
    "end": ("End this subscription?", "It ends for good, and its matches leave the inbox.", "End it"),
    "remove": ("Remove this webhook?", "What still waits for it is not sent.", "Remove it"),
    "revoke": ("Revoke this token?", "Programs that use it are refused from now on.", "Revoke it"),
}
UNTIL_STOPPED, DATE = "until-stopped", "date"
LEASES = (
    (UNTIL_STOPPED, "until I stop"),
    ("86400", "a day"),
    ("604800", "a week"),
    ("2592000", "30 days"),
    ("31536000", "a year"),
    (DATE, "until a date"),
)
