"""Reverie on Ray. Needs `reverie[ray]`.

- The engine `ray` (`reverie run experiment.toml --engine ray`) needs nothing from here.
"""
