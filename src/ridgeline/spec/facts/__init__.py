"""Facts about GPUs and models that arithmetic needs: what a GPU can do, what a model is made of.

In: our small JSON files (shipped here, or dropped into a folder named by RIDGELINE_FACTS) and Hugging Face
`config.json` files. Out: frozen `Gpu` and `ModelArch` values. It refuses to know engines, topologies and precisions:
what follows from those is arithmetic and lives in `engine/`.
"""
