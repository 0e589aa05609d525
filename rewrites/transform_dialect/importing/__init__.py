"""Transform-dialect specs as specs of our language."""
