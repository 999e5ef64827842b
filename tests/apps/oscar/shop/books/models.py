from django.db import models


class Payment(models.Model):
    email = models.CharField(max_length=200)
