"""Pages: what people see in a browser, made on the server. Every one is behind advisor.pages.gate."""
