"""Model life cycle: drift, recalibration, promotion, training-serving skew."""
