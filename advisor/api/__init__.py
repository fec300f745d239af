"""HTTP: routes translate, call one function, translate back."""
