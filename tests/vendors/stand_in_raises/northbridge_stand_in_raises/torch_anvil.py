raise OSError("libanvil.so.3 is not there")
