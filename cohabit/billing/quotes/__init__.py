"""Inputs and tables of cost estimates."""
