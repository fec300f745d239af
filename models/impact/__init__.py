"""Impact of advice, estimated from a randomised holdout."""
