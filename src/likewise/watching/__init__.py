"""A model is watched where it is called: a function, an estimator, a module."""
