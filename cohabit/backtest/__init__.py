"""Backtest: a closed loop of metrics, models, advice and outcomes, under laws that are hidden from all policies."""
