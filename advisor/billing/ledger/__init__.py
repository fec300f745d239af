"""The ledger: months, postings, closing, price book versions."""
