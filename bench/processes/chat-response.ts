// HTTP responses in OpenAI's format, as the benchmarks' own providers send them.
const TEXT =
  'A careful answer of ordinary length, so that reading, keeping and passing it on costs what ' +
  'it costs in earnest. It names what was asked, says what follows from it, ends. '.repeat(4);
const usage = { prompt_tokens: 280, completion_tokens: 120, total_tokens: 400 };
export const makeChatResponse = (message: object, finish_reason: string): Buffer => {
  const body = JSON.stringify({
    id: 'chatcmpl-bench',
    object: 'chat.completion',
    created: 1_750_000_000,
    model: 'bench-model',
    choices: [{ index: 0, message: { role: 'assistant', ...message }, finish_reason }],
    usage,
  });
  const head = 'HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n';
  return Buffer.from(`${head}content-length: ${Buffer.byteLength(body)}\r\n\r\n${body}`);
};

export const plainChatResponse = makeChatResponse({ content: TEXT }, 'stop');
