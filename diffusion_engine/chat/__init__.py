"""Between messages and tokens: tokenizer, chat templates, tool calls, grammars."""
