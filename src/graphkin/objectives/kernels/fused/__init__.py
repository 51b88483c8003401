"""The two-view objective and Kinship in two Triton kernels each that write nothing of size N×N (docs/performance.md).

``needs`` says where they apply and is all that can be imported without Triton; ``loss`` and ``kinship`` are the ways in.
"""
