"""Tables, topics, identities and errors of what is ingested. Facts."""
