"""What stock emitters send, through a real Collector and a real Kafka, against what was asked of them."""
