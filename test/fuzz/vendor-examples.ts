// Bodies of each vendor's dialect as current clients and providers send them, to be distorted.
const PIXEL =
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABpfZFQAAAAABJRU5ErkJggg==';
const DATA_URL = `data:image/png;base64,${PIXEL}`;
const SCHEMA = { type: 'object', properties: { path: { type: 'string' } }, required: ['path'] };

export type Example = {
  request: Record<string, unknown>;
  response: Record<string, unknown>;
  stream: readonly Record<string, unknown>[];
};

const openaiUsage = {
  prompt_tokens: 10,
  completion_tokens: 5,
  prompt_tokens_details: { cached_tokens: 4 },
};
const openaiCall = (name: string) => ({
  id: 'call_1',
  type: 'function',
  function: { name, arguments: '{"path":"a"}' },
});
const chunk = (delta: object, finish_reason: string | null = null) => ({
  id: 'c',
  object: 'chat.completion.chunk',
  created: 1,
  model: 'm',
  choices: [{ index: 0, delta, finish_reason }],
});

const openai: Example = {
  request: {
    model: 'm',
    stream: true,
    stream_options: { include_usage: true },
    max_completion_tokens: 100,
    temperature: 0.5,
    stop: [],
    n: 1,
    parallel_tool_calls: true,
    tool_choice: { type: 'function', function: { name: 'read' } },
    response_format: { type: 'json_schema', json_schema: { name: 'x', schema: SCHEMA } },
    tools: [
      { type: 'function', function: { name: 'read', description: 'Read', parameters: SCHEMA } },
      { type: 'custom', custom: { name: 'patch', format: { type: 'text' } } },
    ],
    messages: [
      { role: 'system', content: 'Be brief.' },
      { role: 'developer', content: [{ type: 'text', text: 'Really.' }] },
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Look' },
          { type: 'image_url', image_url: { url: DATA_URL, detail: 'low' } },
        ],
      },
      { role: 'assistant', content: null, tool_calls: [openaiCall('read')] },
      { role: 'tool', tool_call_id: 'call_1', content: 'done' },
      { role: 'assistant', content: 'Fine.', refusal: null },
      { role: 'user', content: 'Go on', name: 'ann' },
    ],
  },
  response: {
    id: 'c',
    object: 'chat.completion',
    created: 1,
    model: 'm',
    choices: [
      {
        index: 0,
        message: { role: 'assistant', content: 'Hi', tool_calls: [openaiCall('read')] },
        finish_reason: 'tool_calls',
      },
    ],
    usage: openaiUsage,
  },
  stream: [
    chunk({ role: 'assistant', content: '' }),
    chunk({ content: 'Hi', reasoning_content: 'So' }),
    chunk({ tool_calls: [{ index: 0, ...openaiCall('read') }] }),
    chunk({ tool_calls: [{ index: 0, function: { arguments: '{}' } }] }),
    chunk({}, 'tool_calls'),
    { ...chunk({}), choices: [], usage: openaiUsage },
  ],
};

const item = (output_index: number, more: object) => ({ output_index, ...more });
const call = {
  type: 'function_call',
  id: 'fc_1',
  call_id: 'call_1',
  name: 'read',
  arguments: '{"path":"a"}',
  status: 'completed',
};
const message = {
  type: 'message',
  id: 'msg_1',
  role: 'assistant',
  status: 'completed',
  content: [{ type: 'output_text', text: 'Hi', annotations: [] }],
};
const reasoning = {
  type: 'reasoning',
  id: 'rs_1',
  summary: [{ type: 'summary_text', text: 'So' }],
  encrypted_content: 'c2VhbGVk',
};
const response = {
  id: 'resp_1',
  object: 'response',
  created_at: 1,
  status: 'completed',
  model: 'm',
  output: [reasoning, message, call],
  usage: { input_tokens: 10, output_tokens: 5, input_tokens_details: { cached_tokens: 4 } },
};

const responses: Example = {
  request: {
    model: 'm',
    instructions: 'Be brief.',
    stream: true,
    store: false,
    max_output_tokens: 100,
    parallel_tool_calls: false,
    tool_choice: 'auto',
    include: ['reasoning.encrypted_content'],
    prompt_cache_key: 'k',
    client_metadata: { a: 'b' },
    reasoning: { effort: 'low', summary: 'auto' },
    text: { format: { type: 'json_schema', name: 'x', schema: SCHEMA }, verbosity: 'low' },
    tools: [
      { type: 'function', name: 'read', description: 'Read', parameters: SCHEMA, strict: true },
      {
        type: 'custom',
        name: 'patch',
        format: { type: 'grammar', syntax: 'lark', definition: 'x' },
      },
      {
        type: 'namespace',
        name: 'space',
        description: 'More',
        tools: [{ type: 'function', name: 'inner', parameters: SCHEMA }],
      },
      { type: 'web_search' },
    ],
    input: [
      { type: 'message', role: 'developer', content: [{ type: 'input_text', text: 'Really.' }] },
      {
        role: 'user',
        content: [
          { type: 'input_text', text: 'Look' },
          { type: 'input_image', image_url: DATA_URL, detail: 'auto' },
          {
            type: 'input_file',
            filename: 'a.pdf',
            file_data: 'data:application/pdf;base64,JVBERg==',
          },
        ],
      },
      reasoning,
      message,
      call,
      { type: 'function_call_output', call_id: 'call_1', output: 'done' },
      { type: 'custom_tool_call', call_id: 'call_2', name: 'patch', input: '*** Begin' },
      {
        type: 'custom_tool_call_output',
        call_id: 'call_2',
        output: [{ type: 'input_text', text: 'ok' }],
      },
    ],
  },
  response,
  stream: [
    { type: 'response.created', response: { ...response, status: 'in_progress', output: [] } },
    { type: 'response.output_item.added', ...item(0, { item: { ...message, content: [] } }) },
    {
      type: 'response.content_part.added',
      ...item(0, { content_index: 0, part: message.content[0] }),
    },
    { type: 'response.output_text.delta', ...item(0, { content_index: 0, delta: 'Hi' }) },
    { type: 'response.output_item.done', ...item(0, { item: message }) },
    {
      type: 'response.reasoning_summary_text.delta',
      ...item(1, { summary_index: 0, delta: 'So' }),
    },
    { type: 'response.output_item.done', ...item(1, { item: reasoning }) },
    { type: 'response.output_item.added', ...item(2, { item: { ...call, arguments: '' } }) },
    {
      type: 'response.function_call_arguments.delta',
      ...item(2, { item_id: 'fc_1', delta: '{}' }),
    },
    { type: 'response.output_item.done', ...item(2, { item: call }) },
    { type: 'response.completed', response },
  ],
};

const anthropicUsage = {
  input_tokens: 10,
  output_tokens: 5,
  cache_read_input_tokens: 4,
  cache_creation_input_tokens: 2,
};
const toolUse = { type: 'tool_use', id: 'toolu_1', name: 'read', input: { path: 'a' } };
const thinking = { type: 'thinking', thinking: 'So', signature: 'c2lnbmVk' };
const start = (index: number, content_block: object) => ({
  type: 'content_block_start',
  index,
  content_block,
});
const delta = (index: number, more: object) => ({
  type: 'content_block_delta',
  index,
  delta: more,
});
const stop = (index: number) => ({ type: 'content_block_stop', index });

const anthropic: Example = {
  request: {
    model: 'm',
    max_tokens: 4_000,
    stream: true,
    temperature: 1,
    stop_sequences: [],
    system: [{ type: 'text', text: 'Be brief.', cache_control: { type: 'ephemeral', ttl: '1h' } }],
    thinking: { type: 'enabled', budget_tokens: 1_024 },
    context_management: { edits: [{ type: 'clear_tool_uses_20250919' }] },
    metadata: { user_id: 'u' },
    tool_choice: { type: 'auto', disable_parallel_tool_use: true },
    tools: [
      {
        name: 'read',
        description: 'Read',
        input_schema: SCHEMA,
        cache_control: { type: 'ephemeral' },
      },
    ],
    messages: [
      {
        role: 'user',
        content: [
          { type: 'text', text: 'Look' },
          { type: 'image', source: { type: 'base64', media_type: 'image/png', data: PIXEL } },
          {
            type: 'document',
            source: { type: 'base64', media_type: 'application/pdf', data: 'JVBERg==' },
            title: 'a',
          },
        ],
      },
      {
        role: 'assistant',
        content: [thinking, { type: 'redacted_thinking', data: 'eA==' }, toolUse],
      },
      {
        role: 'user',
        content: [
          {
            type: 'tool_result',
            tool_use_id: 'toolu_1',
            is_error: false,
            content: [{ type: 'text', text: 'done' }],
          },
        ],
      },
    ],
  },
  response: {
    id: 'msg_1',
    type: 'message',
    role: 'assistant',
    model: 'm',
    content: [thinking, { type: 'text', text: 'Hi' }, toolUse],
    stop_reason: 'tool_use',
    stop_sequence: null,
    usage: anthropicUsage,
  },
  stream: [
    {
      type: 'message_start',
      message: {
        id: 'msg_1',
        type: 'message',
        role: 'assistant',
        model: 'm',
        content: [],
        stop_reason: null,
        usage: anthropicUsage,
      },
    },
    start(0, { type: 'thinking', thinking: '', signature: '' }),
    delta(0, { type: 'thinking_delta', thinking: 'So' }),
    delta(0, { type: 'signature_delta', signature: 'c2lnbmVk' }),
    stop(0),
    start(1, { type: 'text', text: '' }),
    delta(1, { type: 'text_delta', text: 'Hi' }),
    stop(1),
    start(2, { ...toolUse, input: {} }),
    delta(2, { type: 'input_json_delta', partial_json: '{"path":"a"}' }),
    stop(2),
    { type: 'message_delta', delta: { stop_reason: 'tool_use' }, usage: { output_tokens: 5 } },
    { type: 'message_stop' },
  ],
};

export const EXAMPLES: Readonly<Record<'openai' | 'responses' | 'anthropic', Example>> = {
  openai,
  responses,
  anthropic,
};
