"""Billing commands' work: metering, drafts, previews."""
