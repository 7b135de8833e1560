// Defines the parts of OpenAI's wire that this server reads and writes. Fields that it accepts and
// ignores are only in the list of known fields. A test compares both with the `openai` package.

export type TextPart = { readonly type: 'text'; readonly text: string };
export type ContentPart = TextPart | { readonly type: string; readonly text?: undefined };
export type Content = string | readonly ContentPart[] | null;

export type ToolCall = {
  readonly id: string;
  readonly type: 'function';
  readonly function: { readonly name: string; readonly arguments: string };
};

export type ChatMessage = {
  readonly role: 'developer' | 'system' | 'user' | 'assistant' | 'tool' | 'function';
  readonly content?: Content;
  readonly tool_calls?: readonly ToolCall[];
  readonly tool_call_id?: string;
};

export type ChatTool = {
  readonly type: 'function';
  readonly function: {
    readonly name: string;
    readonly description?: string;
    readonly parameters?: unknown;
  };
};

export type ChatToolChoice =
  | 'none'
  | 'auto'
  | 'required'
  | { readonly type: 'function'; readonly function: { readonly name: string } };

export type ChatRequest = {
  readonly model: string;
  readonly messages: readonly ChatMessage[];
  readonly tools?: readonly ChatTool[] | null;
  readonly tool_choice?: ChatToolChoice | null;
  readonly parallel_tool_calls?: boolean | null;
  readonly max_tokens?: number | null;
  readonly max_completion_tokens?: number | null;
  readonly stop?: string | readonly string[] | null;
  readonly n?: number | null;
  readonly stream?: boolean | null;
  readonly stream_options?: { readonly include_usage?: boolean } | null;
};

/** The vendor's fields of a chat request; any other field is refused. */
export const CHAT_FIELDS = [
  'messages',
  'model',
  'audio',
  'frequency_penalty',
  'function_call',
  'functions',
  'logit_bias',
  'logprobs',
  'max_completion_tokens',
  'max_tokens',
  'metadata',
  'modalities',
  'moderation',
  'n',
  'parallel_tool_calls',
  'prediction',
  'presence_penalty',
  'prompt_cache_key',
  'prompt_cache_options',
  'prompt_cache_retention',
  'reasoning_effort',
  'response_format',
  'safety_identifier',
  'seed',
  'service_tier',
  'stop',
  'store',
  'stream',
  'stream_options',
  'temperature',
  'tool_choice',
  'tools',
  'top_logprobs',
  'top_p',
  'user',
  'verbosity',
  'web_search_options',
] as const;

export type ChatUsage = {
  prompt_tokens: number;
  completion_tokens: number;
  total_tokens: number;
  prompt_tokens_details: {
    cached_tokens: number;
    cache_write_tokens: number;
    audio_tokens: number;
  };
  completion_tokens_details: {
    reasoning_tokens: number;
    audio_tokens: number;
    accepted_prediction_tokens: number;
    rejected_prediction_tokens: number;
  };
};

export type FinishReason = 'stop' | 'length' | 'tool_calls' | 'content_filter';

export type ChatCompletion = {
  id: string;
  object: 'chat.completion';
  created: number;
  model: string;
  choices: {
    index: number;
    message: {
      role: 'assistant';
      content: string | null;
      refusal: string | null;
      tool_calls?: ToolCall[];
    };
    logprobs: null;
    finish_reason: FinishReason;
  }[];
  usage: ChatUsage;
  service_tier: 'default';
  system_fingerprint: string;
};

export type ChunkDelta = {
  role?: 'assistant';
  content?: string | null;
  refusal?: null;
  tool_calls?: {
    index: number;
    id?: string;
    type?: 'function';
    function?: { name?: string; arguments?: string };
  }[];
};

export type ChatChunk = {
  id: string;
  object: 'chat.completion.chunk';
  created: number;
  model: string;
  service_tier: 'default';
  system_fingerprint: string;
  choices: {
    index: number;
    delta: ChunkDelta;
    logprobs: null;
    finish_reason: FinishReason | null;
  }[];
  usage?: ChatUsage | null;
};
