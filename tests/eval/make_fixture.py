"""Writes fixture.json: small corpora of awkward text with the figures sacreBLEU gives for them.

Reigen's BLEU, chrF and 13a tokens are compared with these (bleu_test.cpp, chrf_test.cpp). Needs
sacreBLEU 2.6 and nothing else; everything is deterministic. From the top of the repository:

    python3 tests/eval/make_fixture.py > tests/eval/fixture.json
"""

import json
import sys

import sacrebleu
from sacrebleu.metrics import BLEU, CHRF
from sacrebleu.significance import PairedTest

RESAMPLES = 1000

# name -> hypotheses, then one or more sets of references
CORPORA = {
    "plain": (
        [
            "The cat sat on the mat and looked out of the window.",
            "He said that he would come, but nobody believed him.",
            "Ein Mann in einem blauen Hemd steht auf einer Leiter und putzt ein Fenster.",
            "It's the committee's decision, isn't it?",
        ],
        [
            "The cat sat on the mat, looking out of the window.",
            "He said he would come, but no one believed him.",
            "Ein Mann im blauen Hemd steht auf einer Leiter und putzt das Fenster.",
            "It is the committee's decision, isn't it?",
        ],
    ),
    "numbers": (
        [
            "It cost 1,000.5 dollars, or 3.14 times 50% of $5.00.",
            "The range is 10-20, not 1-800-555; -5 and .5 and 5. and ,5 differ.",
            "Odd: 1.,2 1,.2 1..2 1...2 a.b.c U.S. e.g., 3.a a.3 3,a a,3",
            "At 12:30, 5/6 of 7*8=56 (or 9+1).",
            "1.",
        ],
        [
            "It cost 1,000.50 dollars, or 3.14 times 50 % of $ 5.00 .",
            "The range is 10 - 20, not 1-800-556; -5 and .5 and 5 . and ,5 differ.",
            "Odd: 1. ,2 1, .2 1. .2 1. . .2 a . b . c U.S . e.g. , 3 . a a . 3 3 , a a , 3",
            "At 12 : 30, 5 / 6 of 7 * 8 = 56 ( or 9 + 1 ) .",
            "1 .",
        ],
    ),
    "symbols": (
        [
            "a!b\"c#d$e%f&g'h(i)j*k+l,m-n.o/p:q;r<s=t>u?v@w[x\\y]z^0_1`2{3|4}5~6",
            "1!2\"3#4$5%6&7'8(9)0*1+2,3-4.5/6:7;8<9=0>1?2@3[4\\5]6^7_8`9{0|1}2~3",
            "http://www.example.org/a_b?c=d&e=f#g me@example.org C:\\dir\\file.txt",
            "!?.,;:-'\"()[]{}<>/\\|@#$%^&*_+=~`",
        ],
        [
            "a ! b \" c # d $ e % f & g'h ( i ) j * k + l , m-n . o / p : q ; r < s = t > u",
            "1 ! 2 \" 3 # 4 $ 5 % 6 & 7'8 ( 9 ) 0 * 1 + 2,3 - 4.5 / 6 : 7 ; 8 < 9 = 0 > 1",
            "http : / / www.example.org / a _ b ? c = d & e = f # g me @ example.org C : file.txt",
            "! ? . , ; : -' \" ( ) [ ] { } < > / \\ | @ # $ % ^ & * _ + = ~ `",
        ],
    ),
    "entities": (
        [
            "He said &quot;no&quot; &amp; left.",
            "&lt;b&gt;bold&lt;/b&gt; &amp;lt; &amp;gt; &amp;quot; &amp;amp; &apos; &#39;",
            "AT&T & R&D; &AMP; &quot &amp &; & &&amp;&",
            "before <skipped> after <skip<skipped>ped> end",
        ],
        [
            "He said \"no\" & left.",
            "<b>bold</b> < > &quot; &amp; &apos; &#39;",
            "AT & T & R & D ; & AMP ; & quot & amp & ; & & & &",
            "before after <skipped> end",
        ],
    ),
    "hyphens": (
        [
            "a state-of-the-art 2-year-old from 1990-1995",
            "--verbose -- well - 5--6 5 -6 x-5 5-x -",
            "well\u2010known non\u2011breaking 1\u20132 3\u20144 5\u22126",
        ],
        [
            "a state-of-the-art 2 - year-old from 1990 - 1995",
            "--verbose -- well - 5 - -6 5 -6 x-5 5 - x -",
            "well\u2010known non-breaking 1\u20132 3 \u2014 4 5\u22126",
        ],
    ),
    "unicode punctuation": (
        [
            "„Ja“, sagte er \u2013 ‚Nein‘ … «Bien sûr» !",
            "¿Qué? ¡Olé! 20°C €5,50 £3.20 §5 ½ ²",
            "１２\uff0e５ ٣.٤ १,२ é.5 5.é é,é",
            "don’t ‘quote’ “double” a·b a•b™ ©®",
        ],
        [
            "„Ja“ , sagte er \u2013 ‚Nein‘… « Bien sûr »!",
            "¿Qué ? ¡Olé ! 20 °C € 5,50 £ 3.20 § 5 ½ ²",
            "１２\uff0e５ ٣ . ٤ १ , २ é .5 5. é é , é",
            "don't 'quote' \"double\" a·b a • b™ © ®",
        ],
    ),
    "cjk": (
        [
            "今天天气很好，我们去公园。",
            "東京は日本の首都です。 3.5億円",
            "한국어 문장입니다. 그리고, 끝!",
        ],
        [
            "今天天气不错，我们去公园吧。",
            "東京が日本の首都だ。 3.5億 円",
            "한국어 문장이다. 그리고 , 끝 !",
        ],
    ),
    "emoji and combining marks": (
        [
            "I ❤\ufe0f this 😀😀 👨\u200d👩\u200d👧!",
            "cafe\u0301 and café, naïve and nai\u0308ve.",
            "สวัสดี नमस्ते 𠀀𝕏",
        ],
        [
            "I ❤ this 😀 👨\u200d👩\u200d👦 !",
            "café and café, naive and naïve.",
            "สวัสดี नमस्ते ! 𠀀 𝕏",
        ],
    ),
    "white space": (
        [
            "tab\tseparated  double   space \t",
            "no\u00a0break thin\u2009space ideographic\u3000space narrow\u202fspace",
            "next\u0085line line\u2028separator file\u001cmark unit\u001fmark vt\u000bff\u000cend",
            "zero\u200bwidth word\u2060joiner \ufeffmark soft\u00adhyphen",
            "  leading and trailing  \u00a0",
            "one-\ntwo three\nfour.\r\n",
        ],
        [
            "tab separated double space",
            "no break thin space ideographic space narrow space",
            "next line line separator file mark unit mark vt ff end",
            "zero width wordjoiner mark softhyphen",
            "leading and trailing",
            "onetwo three four.",
        ],
    ),
    "empty hypotheses": (
        ["", "A whole sentence that is here.", "   ", "Another one, also here today."],
        [
            "This was lost.",
            "A whole sentence which is here.",
            "So was this one.",
            "Another one, also there today.",
        ],
    ),
    "only empty hypotheses": (["", " "], ["This was lost.", "So was this."]),
    "an empty reference": (
        ["Something was said here, though.", "The rest of it is in order."],
        ["", "The rest of it was in order."],
    ),
    "identical": (
        ["The same on both sides, exactly.", "Zweimal dasselbe: 3,5 % & mehr."],
        ["The same on both sides, exactly.", "Zweimal dasselbe: 3,5 % & mehr."],
    ),
    "nothing in common": (
        ["aaa bbb ccc ddd eee", "fff ggg hhh iii"],
        ["111 222 333 444 555", "666 777 888 999"],
    ),
    "no longer matches": (
        ["red one green two blue three", "five six seven eight nine"],
        ["one x two y three z", "nine y seven x five"],
    ),
    "one word": (["Yes", "No.", "Perhaps", "x"], ["Yes", "No", "Maybe", "y"]),
    "fewer than four words": (
        ["good morning", "thank you very", "see you", "(hi) \"yes\" -no- ..."],
        ["good morning", "thank you", "see you soon", "(hi) \"yes\" -no-"],
    ),
    "repetition": (
        ["the the the the the the the", "of of the the of of the the of"],
        ["the cat is on the mat", "of the of the of the people"],
    ),
    "too long and too short": (
        [
            "This translation goes on and on and on long after everything was said and done.",
            "Short.",
        ],
        ["This translation goes on.", "This one ought to have been a good deal longer, though."],
    ),
    "case": (
        ["the President of THE united states", "Der mann geht nach hause."],
        ["The president of the United States", "Der Mann geht nach Hause."],
    ),
    "two references": (
        [
            "The dog bit the man.",
            "It wasn't surprising at all.",
            "The man had just bitten him.",
            "One more of them, of them all.",
        ],
        [
            "The dog bit the man.",
            "It was not unexpected.",
            "The man bit him first.",
            "One more of them all.",
        ],
        [
            "The dog had bit the man.",
            "No one was surprised.",
            "The man had bitten the dog.",
            "Of them, one more.",
        ],
    ),
}


class Draws:
    """Knuth's MMIX generator: the same on every machine and in every Python."""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state * 6364136223846793005 + 1442695040888963407) % 2**64
        return (self.state >> 33) * n >> 31


WORDS = (
    "der die das ein eine Hund Katze Haus Garten Baum geht steht sitzt sieht heute morgen "
    "und oder aber nicht sehr klein alt neu rot in auf unter neben"
).split()


def systems(sentences):
    """References, a fair system and a somewhat better one: each swaps words at random."""
    draws = Draws(7)

    def spoil(words, percent):
        out = [WORDS[draws.below(len(WORDS))] if draws.below(100) < percent else w for w in words]
        if draws.below(4) == 0:
            out.pop(draws.below(len(out)))
        return " ".join(out) + "."

    references, fair, better = [], [], []
    for _ in range(sentences):
        words = [WORDS[draws.below(len(WORDS))] for _ in range(6 + draws.below(10))]
        references.append(" ".join(words) + ".")
        fair.append(spoil(words, 28))
        better.append(spoil(words, 22))
    return references, fair, better


def bleu_of(metric, hypotheses, references):
    score = metric.corpus_score(hypotheses, references)
    return {
        "score": score.score,
        "precisions": list(score.precisions),
        "brevity_penalty": score.bp,
        "hypothesis_length": int(score.sys_len),
        "reference_length": int(score.ref_len),
        "text": score.format(width=2),
        "signature": metric.get_signature().format(),
    }


def chrf_of(metric, hypotheses, references):
    score = metric.corpus_score(hypotheses, references)
    return {
        "name": score.name,
        "score": score.score,
        "signature": metric.get_signature().format(),
    }


def sentences_of(metric, hypotheses, references):
    return [metric.sentence_score(h, list(r)).score for h, *r in zip(hypotheses, *references)]


def corpus_entry(name, hypotheses, references):
    token = BLEU().tokenizer
    smoothing = {m: BLEU(smooth_method=m) for m in ("none", "floor", "add-k")}
    return {
        "name": name,
        "hypotheses": hypotheses,
        "references": references,
        "tokens": {
            "hypotheses": [token(line.rstrip()) for line in hypotheses],
            "references": [[token(line.rstrip()) for line in lines] for lines in references],
        },
        "bleu": bleu_of(BLEU(), hypotheses, references),
        "smoothed": {k: bleu_of(m, hypotheses, references)["score"] for k, m in smoothing.items()},
        "chrf": chrf_of(CHRF(), hypotheses, references),
        "chrf++": chrf_of(CHRF(word_order=2), hypotheses, references),
        "sentences": {
            "bleu": sentences_of(BLEU(effective_order=True), hypotheses, references),
            "chrf": sentences_of(CHRF(), hypotheses, references),
            "chrf++": sentences_of(CHRF(word_order=2), hypotheses, references),
        },
    }


def significance_entry():
    references, fair, better = systems(80)
    test = PairedTest(
        [("fair", fair), ("better", better)],
        {"BLEU": BLEU(), "CHRF": CHRF()},
        [references],
        test_type="bs",
        n_samples=RESAMPLES,
    )
    signatures, results = test()
    entry = {"references": references, "fair": fair, "better": better, "resamples": RESAMPLES}
    for name in ("BLEU", "chrF2"):
        baseline, system = results[name]
        entry[name] = {
            "signature": str(signatures[name]),
            "fair": {
                "score": baseline.score, "mean": float(baseline.mean), "ci": float(baseline.ci)
            },
            "better": {"score": system.score, "mean": float(system.mean), "ci": float(system.ci)},
            "p_value": system.p_value,
        }
    return entry


def main():
    fixture = {
        "sacrebleu": sacrebleu.__version__,
        "corpora": [
            corpus_entry(name, hypotheses, references)
            for name, (hypotheses, *references) in CORPORA.items()
        ],
        "significance": significance_entry(),
    }
    json.dump(fixture, sys.stdout, indent=1)
    print()


if __name__ == "__main__":
    main()
