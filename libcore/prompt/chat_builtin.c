/*
 * chat_builtin.c - named templates, for models that come without one or
 * with one that cannot be used.
 *
 * Written for cag: a system message, user and assistant turns, the
 * generation prompt.  Where a family has no system role the template
 * refuses one, and the knowledge becomes an acknowledged turn (chat.h).
 */
#include <string.h>

#include <cag/tool/names.h>

#include "prompt/chat.h"

/* one turn per message: role in front, message, end, newline */
#define TURNS(open, close, prompt)                                  \
    "{% for m in messages %}{{ " open " + m.content + " close " }}" \
    "{% endfor %}{% if add_generation_prompt %}{{ " prompt " }}{% endif %}"
#define NO_SYSTEM                           \
    "{% if messages[0].role == 'system' %}" \
    "{{ raise_exception('this template has no system role') }}{% endif %}"

static const struct {
    const char *name, *text;
} builtin[] = {
    { "chatml", TURNS("'<|im_start|>' + m.role + '\\n'", "'<|im_end|>\\n'",
                      "'<|im_start|>assistant\\n'") },
    { "deepseek",
      "{{ bos_token }}{% for m in messages %}{% if m.role == 'user' %}"
      "{{ '<\xEF\xBD\x9CUser\xEF\xBD\x9C>' + m.content }}"
      "{% elif m.role == 'assistant' %}"
      "{{ '<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>' + m.content + "
      "'<\xEF\xBD\x9C"
      "end\xE2\x96\x81of\xE2\x96\x81sentence\xEF\xBD\x9C>' }}"
      "{% else %}{{ m.content }}{% endif %}{% endfor %}"
      "{% if add_generation_prompt %}"
      "{{ '<\xEF\xBD\x9C"
      "Assistant\xEF\xBD\x9C>' }}{% endif %}" },
    { "gemma", NO_SYSTEM
      "{{ bos_token }}{% for m in messages %}"
      "{{ '<start_of_turn>' + ('model' if m.role == 'assistant' else m.role)"
      " + '\\n' + m.content | trim + '<end_of_turn>\\n' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<start_of_turn>model\\n' }}"
      "{% endif %}" },
    { "granite", TURNS("'<|start_of_role|>' + m.role + '<|end_of_role|>'",
                       "'<|end_of_text|>\\n'",
                       "'<|start_of_role|>assistant<|end_of_role|>'") },
    { "llama2", NO_SYSTEM
      "{% for m in messages %}{% if m.role == 'user' %}"
      "{{ bos_token + '[INST] ' + m.content | trim + ' [/INST]' }}"
      "{% else %}{{ ' ' + m.content | trim + ' ' + eos_token }}{% endif %}"
      "{% endfor %}" },
    { "llama3",
      "{{ bos_token }}" TURNS(
          "'<|start_header_id|>' + m.role + '<|end_header_id|>\\n\\n'",
          "'<|eot_id|>'",
          "'<|start_header_id|>assistant<|end_header_id|>\\n\\n'") },
    { "mistral", NO_SYSTEM
      "{{ bos_token }}{% for m in messages %}"
      "{% if m.role == 'user' %}{{ '[INST] ' + m.content + ' [/INST]' }}"
      "{% else %}{{ ' ' + m.content + eos_token }}{% endif %}{% endfor %}" },
    { "phi3",
      TURNS("'<|' + m.role + '|>\\n'", "'<|end|>\\n'", "'<|assistant|>\\n'") },
    { "phi4", TURNS("'<|im_start|>' + m.role + '<|im_sep|>'", "'<|im_end|>'",
                    "'<|im_start|>assistant<|im_sep|>'") },
    { "qwen3",
      "{% for m in messages %}{{ '<|im_start|>' + m.role + '\\n' }}"
      "{% if m.role == 'assistant' and '</think>' in m.content %}"
      "{{ m.content.split('</think>')[-1].lstrip('\\n') }}"
      "{% else %}{{ m.content }}{% endif %}{{ '<|im_end|>\\n' }}{% endfor %}"
      "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}"
      "{% if enable_thinking is defined and enable_thinking is false %}"
      "{{ '<think>\\n\\n</think>\\n\\n' }}{% endif %}{% endif %}" },
    { "zephyr", TURNS("'<|' + m.role + '|>\\n'", "eos_token + '\\n'",
                      "'<|assistant|>\\n'") },
};

#define N_BUILTIN (int)(sizeof builtin / sizeof *builtin)

const char *chat_builtin(const char *name)
{
    for (int i = 0; i < N_BUILTIN; i++)
        if (strcmp(builtin[i].name, name) == 0)
            return builtin[i].text;
    return NULL;
}

const char *cag_template_name(int i)
{
    return i >= 0 && i < N_BUILTIN ? builtin[i].name : NULL;
}
