"""A world to try Tocsin in: an auction house with its members, their subscriptions and a stream of events."""
