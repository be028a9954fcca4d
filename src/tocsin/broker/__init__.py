"""Subscribe, renew, unsubscribe, publish; leases, tickets, notifications. Start with broker.py."""

from tocsin.broker.async_broker import AsyncBroker
from tocsin.broker.broker import Broker
from tocsin.broker.receipts import (
    DeadLetterView,
    DryRun,
    EndReceipt,
    LeaseNotice,
    Notification,
    Page,
    PublishReceipt,
    Reached,
    SubscriptionReceipt,
    SubscriptionView,
)
from tocsin.broker.settings import BrokerSettings

__all__ = [
    "AsyncBroker",
    "Broker",
    "BrokerSettings",
    "DeadLetterView",
    "DryRun",
    "EndReceipt",
    "LeaseNotice",
    "Notification",
    "Page",
    "PublishReceipt",
    "Reached",
    "SubscriptionReceipt",
    "SubscriptionView",
]
