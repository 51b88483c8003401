"""What training minimises: the definitions, the kernels that compute them, the losses as modules."""
