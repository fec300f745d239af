"""Backtest: a closed loop of metrics, models, advice and what comes of it, under laws that nobody who advises knows."""
