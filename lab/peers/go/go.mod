module sinew/lab

go 1.19
