"""What is declared: rules, features, embedders, bursts."""
