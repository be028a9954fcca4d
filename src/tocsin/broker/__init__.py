"""Subscribe, renew, unsubscribe, publish; leases, tickets, notifications. Start with broker.py.

What the broker returns is in tocsin.documents; the names that are used most are here too.
"""

from tocsin.broker.async_broker import AsyncBroker
from tocsin.broker.broker import Broker
from tocsin.broker.core import BrokerSettings
from tocsin.broker.inbox import InboxQuery
from tocsin.broker.inquiries import DryRun, Reached
from tocsin.documents.events import (
    DeadLetterView,
    InboxEntry,
    InboxPage,
    Notification,
    NotificationPage,
    PublishReceipt,
)
from tocsin.documents.subscriptions import EndReceipt, LeaseNotice, SubscriptionReceipt, SubscriptionView

__all__ = [
    "AsyncBroker",
    "Broker",
    "BrokerSettings",
    "DeadLetterView",
    "DryRun",
    "EndReceipt",
    "InboxEntry",
    "InboxPage",
    "InboxQuery",
    "LeaseNotice",
    "Notification",
    "NotificationPage",
    "PublishReceipt",
    "Reached",
    "SubscriptionReceipt",
    "SubscriptionView",
]
