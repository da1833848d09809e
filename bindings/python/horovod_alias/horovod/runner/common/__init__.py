"""Parts of horovodrun that programs use."""
