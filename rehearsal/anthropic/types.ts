// Defines the parts of Anthropic's wire that this server reads and writes. Fields that it accepts
// and ignores are only in the lists of known fields. A test compares both with the types of the
// `@anthropic-ai/sdk` package.

export type TextBlock = { readonly type: 'text'; readonly text: string };
export type ToolUseBlock = {
  readonly type: 'tool_use';
  readonly id: string;
  readonly name: string;
  readonly input: unknown;
};
export type ToolResultBlock = {
  readonly type: 'tool_result';
  readonly tool_use_id: string;
  readonly content?: string | readonly (TextBlock | OtherBlock)[];
  readonly is_error?: boolean;
};
export type ThinkingBlock = {
  readonly type: 'thinking';
  readonly thinking: string;
  readonly signature: string;
};
export type OtherBlock = { readonly type: 'image' | 'document' | 'search_result' };
export type InputBlock = TextBlock | ToolUseBlock | ToolResultBlock | ThinkingBlock | OtherBlock;

export type InputMessage = {
  readonly role: 'user' | 'assistant' | 'system';
  readonly content: string | readonly InputBlock[];
};

export type AnthropicTool = {
  readonly type?: string | null;
  readonly name: string;
  readonly description?: string;
  readonly input_schema?: unknown;
};

export type MessagesRequest = {
  readonly model: string;
  readonly messages: readonly InputMessage[];
  readonly max_tokens: number;
  readonly system?: string | readonly TextBlock[];
  readonly tools?: readonly AnthropicTool[];
  readonly tool_choice?: {
    readonly type: 'auto' | 'any' | 'tool' | 'none';
    readonly name?: string;
    readonly disable_parallel_tool_use?: boolean;
  };
  readonly thinking?: { readonly type: string; readonly budget_tokens?: number };
  readonly stop_sequences?: readonly string[];
  readonly stream?: boolean;
};

/** The vendor's fields of a message request; any other field is refused. */
export const MESSAGE_FIELDS = [
  'max_tokens',
  'messages',
  'model',
  'cache_control',
  'container',
  'diagnostics',
  'inference_geo',
  'metadata',
  'output_config',
  'service_tier',
  'speed',
  'stop_sequences',
  'stream',
  'system',
  'thinking',
  'tool_choice',
  'tools',
] as const;

/** The vendor's fields of a token count request. */
export const COUNT_FIELDS = [
  'messages',
  'model',
  'cache_control',
  'output_config',
  'speed',
  'system',
  'thinking',
  'tool_choice',
  'tools',
] as const;

/** Removed in API version 2026-10-21. */
export const SAMPLING_FIELDS = ['temperature', 'top_p', 'top_k'] as const;

export const BLOCK_FIELDS = {
  text: ['type', 'text', 'cache_control', 'citations'],
  tool_use: ['type', 'id', 'name', 'input', 'cache_control', 'caller', 'toolset_name'],
  tool_result: ['type', 'tool_use_id', 'cache_control', 'content', 'is_error', 'toolset_name'],
  thinking: ['type', 'thinking', 'signature'],
} as const;

export const TOOL_FIELDS = [
  'type',
  'name',
  'input_schema',
  'allowed_callers',
  'cache_control',
  'defer_loading',
  'description',
  'eager_input_streaming',
  'input_examples',
  'strict',
] as const;

export type AnthropicStopReason =
  | 'end_turn'
  | 'max_tokens'
  | 'stop_sequence'
  | 'tool_use'
  | 'refusal';

export type OutputBlock =
  | { type: 'text'; text: string; citations: null }
  | { type: 'thinking'; thinking: string; signature: string }
  | { type: 'tool_use'; id: string; name: string; input: unknown; caller: { type: 'direct' } };

export type MessageUsage = {
  input_tokens: number;
  cache_creation_input_tokens: number;
  cache_read_input_tokens: number;
  cache_creation: { ephemeral_5m_input_tokens: number; ephemeral_1h_input_tokens: number };
  output_tokens: number;
  output_tokens_details: { thinking_tokens: number } | null;
  server_tool_use: null;
  service_tier: 'standard';
  inference_geo: null;
  speed: null;
};

export type AnthropicMessage = {
  id: string;
  type: 'message';
  role: 'assistant';
  model: string;
  content: OutputBlock[];
  stop_reason: AnthropicStopReason | null;
  stop_sequence: string | null;
  stop_details: null;
  container: null;
  diagnostics: null;
  usage: MessageUsage;
};

export type StreamEvent =
  | { type: 'message_start'; message: AnthropicMessage }
  | { type: 'content_block_start'; index: number; content_block: OutputBlock }
  | {
      type: 'content_block_delta';
      index: number;
      delta:
        | { type: 'text_delta'; text: string }
        | { type: 'thinking_delta'; thinking: string }
        | { type: 'signature_delta'; signature: string }
        | { type: 'input_json_delta'; partial_json: string };
    }
  | { type: 'content_block_stop'; index: number }
  | {
      type: 'message_delta';
      delta: {
        stop_reason: AnthropicStopReason | null;
        stop_sequence: string | null;
        stop_details: null;
        container: null;
      };
      usage: Omit<MessageUsage, 'cache_creation' | 'service_tier' | 'inference_geo' | 'speed'>;
    }
  | { type: 'message_stop' }
  | { type: 'ping' };
