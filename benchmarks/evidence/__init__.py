"""Simulations of the first page: are its numbers right, and how often are its claims wrong?"""
