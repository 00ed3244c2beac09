"""LangChain's standard tests of chat models, without those that need a real model or a picture from the internet.

Run by pytest with GATEWAY_URL and GATEWAY_KEY.
"""

import os

from langchain_anthropic import ChatAnthropic
from langchain_openai import ChatOpenAI
from langchain_tests.integration_tests import ChatModelIntegrationTests

URL = os.environ["GATEWAY_URL"]
KEY = os.environ["GATEWAY_KEY"]


class TestOpenAI(ChatModelIntegrationTests):
    chat_model_class = ChatOpenAI
    chat_model_params = {"model": "gpt-5-mini", "base_url": f"{URL}/v1", "api_key": KEY, "stream_usage": True}
    supports_image_inputs = False


class TestAnthropic(ChatModelIntegrationTests):
    chat_model_class = ChatAnthropic
    chat_model_params = {"model": "claude-sonnet-5", "base_url": URL, "api_key": KEY}
    supports_image_inputs = False
