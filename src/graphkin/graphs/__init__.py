"""Graphs and where they come from: arrays, tables, files, downloads, random models."""
