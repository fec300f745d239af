"""The parts of `python -m e2e.stock` that need no Collector."""

from e2e.stock.site import PAGE, configuration, exporters_of


def test_the_collector_exports_what_the_page_says_to_the_broker_of_the_trial() -> None:
    made = configuration("127.0.0.1:9092", 4318, 10250)

    assert exporters_of(PAGE.read_text())["kafka"]["metrics"] == {"topic": "otlp_metrics", "encoding": "otlp_proto"}
    assert made["exporters"] == {
        "kafka": {
            "brokers": ["127.0.0.1:9092"],
            "metrics": {"topic": "otlp_metrics", "encoding": "otlp_proto"},
        }
    }
