"""Neuron models, one a file."""
