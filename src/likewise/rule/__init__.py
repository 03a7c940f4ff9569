"""What users declare: rules, features, embedders, bursts."""
