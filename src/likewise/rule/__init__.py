"""The declarations of users: rules, features, embedders, bursts."""
