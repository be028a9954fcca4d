"""Subscribe, renew, unsubscribe, publish; leases, tickets, notifications. Start with broker.py."""

from tocsin.broker.async_broker import AsyncBroker
from tocsin.broker.broker import Broker
from tocsin.broker.receipts import (
    DeadLetterView,
    EndReceipt,
    LeaseNotice,
    Notification,
    Page,
    PublishReceipt,
    SubscriptionReceipt,
    SubscriptionView,
)
from tocsin.broker.settings import BrokerSettings

__all__ = [
    "AsyncBroker",
    "Broker",
    "BrokerSettings",
    "DeadLetterView",
    "EndReceipt",
    "LeaseNotice",
    "Notification",
    "Page",
    "PublishReceipt",
    "SubscriptionReceipt",
    "SubscriptionView",
]
