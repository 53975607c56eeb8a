"""Make stores of features in npz, HDF5, npy, .pth and Parquet files."""
