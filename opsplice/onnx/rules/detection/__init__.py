"""Rules for what finds objects in images: boxes that stay, and the parts of images in boxes."""
