/*
 * opt_completion.c - --completion: a script for bash, zsh or fish, from the
 * same table as everything else.
 *
 * Values are completed by what the table knows of them: the words of a
 * choice, the words of "auto|cpu|cuda[:N]", file names where the value is
 * called FILE, F or MODEL, else nothing.  Operands are files, caches or the
 * program's commands.  The scripts need nothing but the shell: no library
 * of completion helpers has to be installed.
 */
#include <stdio.h>
#include <string.h>

#include "cmd/cli/opt_internal.h"

const char *const opt_shells[] = { "bash", "zsh", "fish", NULL };

enum value { V_NONE, V_SOME, V_WORDS, V_FILE };

static enum value value_of(const opt_spec *s)
{
    static const char *const files[] = {
        "F", "FILE", "M", "MODEL", "DIR", NULL
    };

    if (!opt_takes_value(s))
        return V_NONE;
    if (opt_has_choices(s) || strchr(s->arg, '|'))
        return V_WORDS;
    for (int i = 0; files[i]; i++)
        if (!strcmp(s->arg, files[i]))
            return V_FILE;
    return strchr(s->arg, '.') ? V_FILE : V_SOME; /* OLD.json */
}

/* The words of a value, with a space between two. */
static void put_words(const opt_spec *s)
{
    const char *p = s->arg;

    for (int i = 0; opt_choice(s, i); i++)
        printf("%s%s", i ? " " : "", opt_choice(s, i));
    while (!opt_has_choices(s) && *p) {
        printf("%s%.*s", p == s->arg ? "" : " ", (int)strcspn(p, "|["), p);
        p += strcspn(p, "|");
        p += *p == '|';
    }
}

/* Text inside '...'; the characters of special get a backslash. */
static void put_quoted(const char *text, const char *special)
{
    for (; *text; text++) {
        if (*text == '\'')
            fputs("'\\'", stdout);
        else if (strchr(special, *text))
            putchar('\\');
        putchar(*text);
    }
}

/* The first entry from s on that is an option; NULL at the end. */
static const opt_spec *real(const opt_spec *s)
{
    while (s->type == OPT_T_MORE)
        s++;
    return s->type == OPT_T_END ? NULL : s;
}

/* "cag-bench probe" -> "_cag_bench_probe" */
static void put_function(const opt_usage *u)
{
    putchar('_');
    for (const char *p = u->tool; *p; p++)
        putchar(*p == '-' || *p == ' ' ? '_' : *p);
}

static const char *command_name(const opt_usage *u)
{
    const char *space = strrchr(u->tool, ' ');

    return space ? space + 1 : u->tool;
}

static void put_commands(const opt_usage *u)
{
    for (int i = 0; u->commands[i]; i++)
        printf("%s%s", i ? " " : "", command_name(u->commands[i]));
}

/* ------------------------------------------------------------------- bash */

static void bash_case(const opt_usage *u, enum value v, const char *set)
{
    const char *bar = "    ";

    for (const opt_spec *s = u->specs; (s = real(s)); s++) {
        if (value_of(s) != v)
            continue;
        fputs(bar, stdout);
        if (s->letter)
            printf("-%c|", s->letter);
        printf("--%s", s->name);
        bar = "|";
        if (v == V_WORDS) {
            printf(") %s words='", set);
            put_words(s);
            printf("' ;;\n");
            bar = "    ";
        }
    }
    if (*bar == '|')
        printf(") %s ;;\n", set);
}

/* The function of a command answers for what stands after its name. */
static void bash_commands(const opt_usage *u)
{
    printf("    if ((COMP_CWORD > 1)); then\n"
           "        case ${COMP_WORDS[1]} in\n");
    for (int i = 0; u->commands[i]; i++) {
        printf("        %s) ", command_name(u->commands[i]));
        put_function(u->commands[i]);
        printf("; return ;;\n");
    }
    printf("        esac\n    fi\n");
}

/* What the word at the cursor is: kind, and the words it may be. */
static void bash_kind(const opt_usage *u)
{
    const char *space = "";

    printf("    # readline takes --name=value for three words\n"
           "    if [[ $cur == = ]]; then\n"
           "        cur=\n"
           "    elif [[ $prev == = ]] && ((COMP_CWORD > 2)); then\n"
           "        prev=${COMP_WORDS[COMP_CWORD - 2]}\n"
           "    fi\n"
           "    case $prev in\n");
    bash_case(u, V_WORDS, "kind=words");
    bash_case(u, V_FILE, "kind=file");
    bash_case(u, V_SOME, "kind=text");
    printf("    esac\n"
           "    if [[ $kind == operand && $cur == -* ]]; then\n"
           "        kind=words words='");
    for (const opt_spec *s = u->specs; (s = real(s)); s++, space = " ") {
        if (s->letter)
            printf("%s-%c", space, s->letter);
        printf("%s--%s", s->letter ? " " : space, s->name);
    }
    printf("'\n    fi\n"
           "    for ((i = 1; i < COMP_CWORD; i++)); do\n"
           "        [[ ${COMP_WORDS[i]} == -- ]] && kind=operand\n"
           "    done\n");
}

/* The words of that kind. */
static void bash_reply(const opt_usage *u)
{
    printf(
        "    COMPREPLY=()\n"
        "    [[ $kind == words ]] &&\n"
        "        mapfile -t COMPREPLY < <(compgen -W \"$words\" -- \"$cur\")\n"
        "    if [[ $kind == file || $kind == operand ]]; then\n"
        "        compopt -o filenames 2>/dev/null\n"
        "        mapfile -t COMPREPLY < <(");
    if (u->operand)
        printf("if [[ $kind == operand ]]; then\n");
    if (u->commands) {
        printf("            compgen -W '");
        put_commands(u);
        printf("' -- \"$cur\"\n");
    }
    if (u->operand)
        printf("            compgen -d -- \"$cur\"\n"
               "            compgen -f -X '!%s' -- \"$cur\"\n"
               "        else\n"
               "            compgen -f -- \"$cur\"\n"
               "        fi",
               u->operand);
    else
        printf("compgen -f -- \"$cur\"");
    printf(")\n    fi\n");
}

static void bash_function(const opt_usage *u)
{
    put_function(u);
    printf("()\n{\n"
           "    local cur=${COMP_WORDS[COMP_CWORD]} "
           "prev=${COMP_WORDS[COMP_CWORD - 1]}\n"
           "    local kind=operand words= i\n\n");
    if (u->commands)
        bash_commands(u);
    bash_kind(u);
    bash_reply(u);
    printf("}\n\n");
}

static void bash(const opt_usage *u)
{
    for (int i = 0; u->commands && u->commands[i]; i++)
        bash_function(u->commands[i]);
    bash_function(u);
    printf("complete -F ");
    put_function(u);
    printf(" %s\n", u->tool);
}

/* -------------------------------------------------------------------- zsh */

static void zsh_option(const opt_spec *s)
{
    enum value v = value_of(s);
    bool many = s->type == OPT_T_COUNT || s->type == OPT_T_LIST;

    printf("        ");
    if (many)
        printf("'*'");
    else if (s->letter)
        printf("'(-%c --%s)'", s->letter, s->name);
    if (s->letter)
        printf("{-%c%s,--%s%s}'[", s->letter, v == V_NONE ? "" : "+", s->name,
               v == V_NONE ? "" : "=");
    else
        printf("'--%s%s[", s->name, v == V_NONE ? "" : "=");
    put_quoted(s->help, "[]:\\");
    putchar(']');
    if (v != V_NONE) {
        putchar(':');
        put_quoted(v == V_WORDS ? s->name : s->arg, "[]:\\");
        putchar(':');
    }
    if (v == V_FILE)
        printf("_files");
    if (v == V_WORDS) {
        putchar('(');
        put_words(s);
        putchar(')');
    }
    printf("' \\\n");
}

static void zsh_function(const opt_usage *u)
{
    put_function(u);
    printf("()\n{\n");
    if (u->commands) {
        printf("    if (( CURRENT > 2 )); then\n"
               "        case $words[2] in\n");
        for (int i = 0; u->commands[i]; i++) {
            printf("        %s) shift words; (( CURRENT-- )); ",
                   command_name(u->commands[i]));
            put_function(u->commands[i]);
            printf("; return ;;\n");
        }
        printf("        esac\n    fi\n");
    }
    printf("    _arguments -s -S : \\\n");
    for (const opt_spec *s = u->specs; (s = real(s)); s++)
        zsh_option(s);
    if (u->commands) {
        printf("        '1:command:(");
        put_commands(u);
        printf(")' \\\n");
    }
    if (u->operand) {
        printf("        '*:file:_files -g \"%s\"'\n", u->operand);
    } else {
        printf("        '*:file:_files'\n");
    }
    printf("}\n\n");
}

static void zsh(const opt_usage *u)
{
    printf("#compdef %s\n\n", u->tool);
    for (int i = 0; u->commands && u->commands[i]; i++)
        zsh_function(u->commands[i]);
    zsh_function(u);
    /* loaded as a function of this name, or sourced */
    printf("if [[ ${funcstack[1]} == ");
    put_function(u);
    printf(" || ${funcstack[1]} == _%s ]]; then\n    ", u->tool);
    put_function(u);
    printf(" \"$@\"\nelse\n    compdef ");
    put_function(u);
    printf(" %s\nfi\n", u->tool);
}

/* ------------------------------------------------------------------- fish */

static void fish_options(const opt_usage *u, const char *tool, const char *when)
{
    for (const opt_spec *s = u->specs; (s = real(s)); s++) {
        enum value v = value_of(s);

        printf("complete -c %s%s", tool, when);
        if (s->letter)
            printf(" -s %c", s->letter);
        printf(" -l %s", s->name);
        if (v == V_FILE)
            printf(" -r -F");
        else if (v != V_NONE)
            printf(" -x");
        if (v == V_WORDS) {
            printf(" -a '");
            put_words(s);
            putchar('\'');
        }
        printf(" -d '");
        for (const char *p = s->help; *p; p++)
            printf(*p == '\'' || *p == '\\' ? "\\%c" : "%c", *p);
        printf("'\n");
    }
}

static void fish(const opt_usage *u)
{
    char when[128];

    for (int i = 0; u->commands && u->commands[i]; i++) {
        const char *name = command_name(u->commands[i]);

        printf("complete -c %s -n __fish_use_subcommand -x -a %s -d '", u->tool,
               name);
        for (const char *p = u->commands[i]->summary; *p; p++)
            printf(*p == '\'' || *p == '\\' ? "\\%c" : "%c", *p);
        printf("'\n");
        ui_format(when, sizeof when, " -n '__fish_seen_subcommand_from %s'",
                  name);
        fish_options(u->commands[i], u->tool, when);
    }
    fish_options(u, u->tool, u->commands ? " -n __fish_use_subcommand" : "");
    if (u->operand)
        printf("complete -c %s -f -a '(__fish_complete_suffix %s)'\n", u->tool,
               u->operand + 1);
}

void opt_print_completion(const opt_usage *u, int shell)
{
    const char *command = strchr(u->tool, ' ');

    if (command)
        opt_fail("completions are of the whole program; write %.*s "
                 "--completion %s",
                 (int)(command - u->tool), u->tool, opt_shells[shell]);
    if (shell != 1) /* zsh: the first line is #compdef */
        printf("# completion of %s; made by %s --completion %s\n\n", u->tool,
               u->tool, opt_shells[shell]);
    (shell == 0 ? bash : shell == 1 ? zsh : fish)(u);
}
