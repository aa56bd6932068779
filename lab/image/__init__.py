"""The image of the service: built twice from the Containerfile, compared, measured."""
