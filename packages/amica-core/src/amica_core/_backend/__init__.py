"""Engines that compute the statistics of an E-step; one file each, loaded by name."""
