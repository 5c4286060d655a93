"""Has rattler-build render recipe.yaml for the CPU and for CUDA; building it takes conda's channels.

pip install py-rattler-build && python packaging/conda/render.py
"""

from pathlib import Path

from rattler_build import Stage0Recipe, VariantConfig

COMPILERS = {"c_compiler": "gcc", "cxx_compiler": "gxx", "c_stdlib": "sysroot", "cuda_compiler": "cuda-nvcc"}

recipe = Stage0Recipe.from_file(str(Path(__file__).parent / "recipe.yaml"))
for flavour, cuda in (("cpu", "None"), ("cuda", "13.0")):
    variant = {**COMPILERS, "python": "3.12.*", "cuda_compiler_version": cuda}
    variants = VariantConfig({name: [value] for name, value in variant.items()})
    (rendered,) = recipe.render(variants)
    of = rendered.recipe.to_dict()
    assert of["build"]["string"].startswith(f"{flavour}_py312"), of["build"]
    assert f"SDTW_CUDA={'ON' if flavour == 'cuda' else 'OFF'}" in of["build"]["script"], of["build"]
    assert any("nvcc" in str(one) for one in of["requirements"]["build"]) == (flavour == "cuda")
    print(rendered)
