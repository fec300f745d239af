"""One module a step. A step that was released is never changed: what it got wrong, a later one puts right."""
