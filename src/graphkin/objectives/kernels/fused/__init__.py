"""The two-view objective in two Triton kernels that write nothing of size N×N (derivation: docs/performance.md).

``needs`` says where they apply and is all that can be imported without Triton; ``loss`` is the way in.
"""
