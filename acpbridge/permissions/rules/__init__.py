"""The policy language: rules of the user's, read strictly, evaluated purely."""
